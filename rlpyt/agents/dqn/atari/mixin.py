"""What agents for images have in common."""

from typing import Any

from rlpyt.agents.dqn.dqn_agent import n_actions


class AtariMixin:
    """The model's arguments from the spaces of an image environment."""

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``image_shape`` (C, H, W) and ``output_size``, the number of actions."""
        return dict(
            image_shape=env_spaces.observation.shape,
            output_size=n_actions(env_spaces.action, type(self).__name__),
        )
