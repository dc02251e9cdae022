"""Environments of tensors for tests."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rlpyt.envs.vector import make_vec
from rlpyt.utils.seed import env_seed


class Reach:
    """Points that move to the origin, in the protocol of rsl_rl; episodes of ``limit`` steps."""

    num_actions = 2

    def __init__(self, num_envs: int, device: Any = "cpu", limit: int = 10) -> None:
        self.num_envs, self.device, self.limit = num_envs, torch.device(device), limit
        self.place = torch.zeros(num_envs, 2, device=device)
        self.age = torch.zeros(num_envs, dtype=torch.long, device=device)

    def seed(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def _draw(self) -> torch.Tensor:
        if self.device.type == "meta":
            return torch.empty(self.num_envs, 2, device=self.device)
        return torch.rand(self.num_envs, 2, generator=self.generator) * 2 - 1

    def reset(self) -> Any:
        self.place, self.age = self._draw(), torch.zeros_like(self.age)
        return self.get_observations()

    def get_observations(self) -> Any:
        return self.place

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self.place = self.place + 0.2 * actions.clamp(-1, 1)
        self.age = self.age + 1
        reward, done = -self.place.norm(dim=1), self.age >= self.limit
        self.place = torch.where(done[:, None], self._draw(), self.place)
        self.age = self.age.masked_fill(done, 0)
        return self.get_observations(), reward, done, {"time_outs": done}


class Images(Reach):
    """``Reach`` with discrete actions, shown as images [3, 12, 12] of bytes."""

    single_action_space = spaces.Discrete(4)
    moves = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])

    def get_observations(self) -> torch.Tensor:
        x = ((self.place.clamp(-1, 1) + 1) * 5.5).long()
        image = torch.zeros(self.num_envs, 3, 12, 12, dtype=torch.uint8)
        image[torch.arange(self.num_envs), 0, x[:, 0], x[:, 1]] = 255
        return image

    def step(self, actions: torch.Tensor) -> Any:
        return super().step(self.moves[actions])


class Groups(Reach):
    """``Reach`` with observations in groups, of which the critic may read more."""

    def get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": self.place, "critic": torch.cat([self.place, self.age[:, None]], 1)}


class Facade:
    """A vector environment of rlpyt with the rows and seeds of a sampler, as tensors.

    Args:
        num_envs: number of rows.
        seed: seed of the sampler.
        id: Gymnasium's id.
        five: return terminated and truncated, in Gymnasium's protocol.
        final: return final observations.
        hostile: overwrite all tensors that were returned, at every call.
    """

    def __init__(
        self,
        num_envs: int,
        seed: int,
        id: str = "CartPole-v1",
        five: bool = False,
        final: bool = True,
        hostile: bool = False,
        **kwargs: Any,
    ) -> None:
        self.envs = make_vec(id, num_envs, **kwargs)
        self.envs.seed([env_seed(seed, rank, "env") for rank in range(num_envs)])
        self.num_envs, self.five, self.final, self.hostile = num_envs, five, final, hostile
        self.single_action_space = self.envs.action_space
        self.single_observation_space = self.envs.observation_space
        self.metadata = {"autoreset_mode": "SameStep"}
        self._returned: list[torch.Tensor] = []

    def _give(self, array: Any) -> torch.Tensor:
        tensor = torch.from_numpy(np.array(array))
        self._returned.append(tensor)
        return tensor

    def _overwrite(self) -> None:
        if self.hostile:
            for tensor in self._returned:
                tensor.fill_(77 if tensor.dtype != torch.bool else True)
        self._returned.clear()

    def reset(self) -> Any:
        self._overwrite()
        return self._give(self.envs.reset()), {}

    def step(self, action: torch.Tensor) -> Any:
        native = action.numpy().copy()
        self._overwrite()
        if self.hostile:
            action.zero_()
        observation, reward, done, info = self.envs.step(native)
        final, timeout = np.array(observation), np.array(info.timeout)
        done, reward = np.array(done), np.array(reward)
        observation = final.copy()
        rows = np.flatnonzero(done)
        observation[rows] = self.envs.reset_rows(rows)
        extras = {"final_obs": self._give(final)} if self.final else {}
        given = self._give(observation), self._give(reward)
        if self.five:
            return *given, self._give(done & ~timeout), self._give(timeout), extras
        return *given, self._give(done), {"time_outs": self._give(timeout), **extras}
