"""rlpyt's mixin of agents for images."""

from rlpyt.agents.base import BaseAgent


class AtariMixin(BaseAgent):
    """Mixin that passes ``image_shape`` [C, H, W] and ``output_size`` to an agent's model."""

    space_arguments = ("image_shape", "output_size")
