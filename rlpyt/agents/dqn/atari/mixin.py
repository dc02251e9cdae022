"""rlpyt's mixin of agents for images."""

from rlpyt.agents.base import BaseAgent


class AtariMixin(BaseAgent):
    """Gives an agent's model ``image_shape`` [C, H, W] and ``output_size`` (number of actions)."""

    space_arguments = ("image_shape", "output_size")
