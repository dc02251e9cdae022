"""Epsilon-greedy exploration from action values."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.distributions.discrete import DiscreteMixin


class EpsilonGreedy(DiscreteMixin, Distribution):
    """The action of highest value, or with probability epsilon any action, all alike.

    Two uniform numbers decide: below epsilon the first asks for exploration, and
    ``floor(second * dim)`` is the action then.

    Args:
        epsilon: a number in [0, 1], or one for each environment, [B].
        **kwargs: ``dim``, ``dtype``, ``onehot_dtype`` of `DiscreteMixin`.

    Raises:
        ValueError: an epsilon is outside [0, 1] or not a number or vector.
    """

    noise_spec = NoiseSpec("uniform", (2,))

    def __init__(self, epsilon: Any = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._epsilon: Any = None
        self.set_epsilon(epsilon)

    @property
    def epsilon(self) -> Any:
        """As it was given."""
        return self._epsilon

    def set_epsilon(self, epsilon: Any) -> None:
        """Set epsilon: a number, or a vector [B] with an entry for each environment."""
        if type(epsilon) is type(self._epsilon) is float and epsilon == self._epsilon:
            return
        tensor = torch.as_tensor(epsilon, dtype=torch.float32)
        array = tensor.numpy()
        if array.ndim > 1 or not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"epsilon={epsilon} must be a number, or a vector of them, in [0, 1].")
        self._epsilon = epsilon
        self._epsilon_tensor = tensor
        self._epsilon_numpy = array

    def sample(self, q: Tensor) -> Tensor:
        """Choose actions, integers of ``dtype``.

        Args:
            q: values [T, B, A], [B, A] or [A]; a vector epsilon runs along B.

        Returns:
            [T, B], [B] or [].

        Raises:
            ValueError: the last dimension of q is not dim, or a vector epsilon does not fit B.
        """
        lead = q.shape[:-1]
        self._check(q, lead)
        noise = self._take_noise(lead, q.device)
        explore = noise[..., 0] < self._epsilon_tensor.to(q.device)
        anything = (noise[..., 1] * self.dim).long()
        return torch.where(explore, anything, q.argmax(-1)).to(self.dtype)

    def mode(self, q: Tensor) -> Tensor:
        """The actions of highest value, for q as in ``sample``; what epsilon zero chooses."""
        return q.argmax(-1).to(self.dtype)

    def sample_numpy(
        self, q: NDArray[Any], noise: NDArray[Any], epsilon: Any = None
    ) -> NDArray[np.int64]:
        """The actions [B] that ``sample`` draws from the same numbers, for numpy arrays.

        Args:
            q: [B, A].
            noise: [B, 2] uniform on [0, 1).
            epsilon: float32, a number or [B]; ``None``: that which was set.
        """
        explore = noise[:, 0] < (self._epsilon_numpy if epsilon is None else epsilon)
        anything = (noise[:, 1] * np.float32(self.dim)).astype(np.int64)
        return np.where(explore, anything, q.argmax(1))

    def _check(self, q: Tensor, lead: tuple[int, ...]) -> None:
        if q.shape[-1] != self.dim:
            raise ValueError(f"q has {q.shape[-1]} actions, but dim={self.dim}.")
        if self._epsilon_tensor.dim() == 1 and lead[-1:] != self._epsilon_tensor.shape:
            raise ValueError(
                f"epsilon has {len(self._epsilon_tensor)} entries, one for each environment, but q "
                f"of shape {tuple(q.shape)} has leading dimensions {tuple(lead)}, [T, B] or [B]."
            )


class CategoricalEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy from distributions of values: probabilities of P atoms with values ``z``.

    Args:
        z: values of the atoms, [P]; ``None``: set later, or given to ``sample``.
        **kwargs: of `EpsilonGreedy`.
    """

    def __init__(self, z: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_z(z)

    def set_z(self, z: Tensor | None) -> None:
        """Set the values of the atoms, [P]."""
        self.z = z

    def sample(self, p: Tensor, z: Tensor | None = None) -> Tensor:
        """Choose actions by the mean of their value distributions.

        Args:
            p: probabilities [T, B, A, P], [B, A, P] or [A, P].
            z: values of the atoms, [P]; ``None``: those set.

        Returns:
            [T, B], [B] or [] integers of ``dtype``.

        Raises:
            ValueError: there is no z.
        """
        return super().sample(self.mean(p, z))

    def mode(self, p: Tensor) -> Tensor:
        """The actions whose value distributions have the highest mean, for p as in ``sample``."""
        return super().mode(self.mean(p))

    def sample_numpy(
        self, p: NDArray[Any], noise: NDArray[Any], epsilon: Any = None
    ) -> NDArray[np.int64]:
        """The actions [B] that ``sample`` draws from the same numbers, for p [B, A, P]."""
        return super().sample_numpy(p @ self._known(None).numpy(), noise, epsilon)

    def mean(self, p: Tensor, z: Tensor | None = None) -> Tensor:
        """Action values: the means of distributions p [*lead, A, P], [*lead, A].

        Raises:
            ValueError: there is no z.
        """
        return p @ self._known(z).to(p)

    def _known(self, z: Tensor | None) -> Tensor:
        z = self.z if z is None else z
        if z is None:
            raise ValueError("the values of the atoms are unknown; call set_z(z), z of shape [P].")
        return z
