"""Epsilon-greedy exploration from action values."""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from rlpyt.distributions.base import NoiseSpec, as_int, namespace
from rlpyt.distributions.discrete import DiscreteMixin
from rlpyt.spaces.action_mask import valid_at, valid_or_all

Q = TypeVar("Q", Tensor, "np.ndarray[Any, Any]")


class EpsilonGreedy(DiscreteMixin):
    """Chooses the action of highest value, or with probability epsilon a uniformly random one.

    The noise is two uniform numbers: if the first is below epsilon, the action is number
    ``floor(second * n)`` of the n actions, with a mask of the n valid actions.

    Args:
        epsilon: number in [0, 1], or one for each environment, [B].
        **kwargs: ``dim``, ``dtype``, ``onehot_dtype`` of `DiscreteMixin`.

    Raises:
        ValueError: an epsilon is outside [0, 1], or neither a number nor a vector.
    """

    noise_spec = NoiseSpec("uniform", (2,))

    def __init__(self, epsilon: Any = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._epsilon: Any = None
        self.set_epsilon(epsilon)

    @property
    def epsilon(self) -> Any:
        """Return epsilon as it was set."""
        return self._epsilon

    def set_epsilon(self, epsilon: Any) -> None:
        """Set epsilon: a number, or a vector [B] with an entry for each environment."""
        if type(epsilon) is type(self._epsilon) is float and epsilon == self._epsilon:
            return
        if type(epsilon) is float and 0 <= epsilon <= 1:  # set in every iteration while it decays
            array = np.array(epsilon, np.float32)
        else:
            array = torch.as_tensor(epsilon, dtype=torch.float32).numpy()
            if array.ndim > 1 or not ((array >= 0) & (array <= 1)).all():
                raise ValueError(f"epsilon must be a number or a vector in [0, 1], got {epsilon}.")
        self._epsilon = epsilon
        self._epsilon_numpy = array

    def sample(self, q: Tensor, mask: Tensor | None = None) -> Tensor:
        """Choose actions, integers of ``dtype``.

        Args:
            q: values [T, B, A], [B, A] or [A]; a vector epsilon runs along B.
            mask: as q, not zero where actions are valid; ``None``: all are.

        Returns:
            [T, B], [B] or [].

        Raises:
            ValueError: the last dimension of q is not dim, or a vector epsilon has not B entries.
        """
        self._check(q)
        noise = self._take_noise(q.shape[:-1], q.device)
        return self.draw(q, noise, None, mask).to(self.dtype)  # type: ignore[no-any-return]

    def draw(self, q: Any, noise: Any, epsilon: Any = None, mask: Any = None) -> Any:
        """Return the actions [*lead] that ``sample`` draws from this noise, int64.

        Args:
            q: [*lead, A].
            noise: [*lead, 2] uniform on [0, 1), float32.
            epsilon: float32, a number or [B]; ``None``: the value set by ``set_epsilon``.
            mask: [*lead, A], not zero where actions are valid; ``None``: all are.
        """
        xp = namespace(q)
        if epsilon is None:
            epsilon = self._epsilon_numpy
            if xp is not np:
                epsilon = torch.from_numpy(epsilon).to(q.device)
        explore = noise[..., 0] < epsilon
        if mask is None:
            return xp.where(explore, as_int(noise[..., 1] * self._dim), q.argmax(-1))
        greedy = valid_values(q, mask).argmax(-1)
        return xp.where(explore, valid_at(mask, noise[..., 1]), greedy)

    def mode(self, q: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the valid actions of highest value, for arguments as in ``sample``."""
        return valid_values(q, mask).argmax(-1).to(self.dtype)

    def _check(self, q: Tensor) -> None:
        if q.shape[-1] != self.dim:
            raise ValueError(f"q must have dim={self.dim} actions, got {q.shape[-1]}.")
        if self._epsilon_numpy.ndim == 1 and q.shape[:-1][-1:] != self._epsilon_numpy.shape:
            raise ValueError(
                f"epsilon has {len(self._epsilon_numpy)} entries, one for each environment, so q "
                "must have that many rows in its last leading dimension, B; got q of shape "
                f"{tuple(q.shape)}."
            )


class CategoricalEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy on the means of distributions: probabilities of P atoms with values ``z``.

    Args:
        z: values of the atoms, [P]; ``None``: set by ``set_z``, or passed to ``sample``.
        **kwargs: arguments of `EpsilonGreedy`.
    """

    def __init__(self, z: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_z(z)

    def set_z(self, z: Tensor | None) -> None:
        """Set the values of the atoms, [P]."""
        self.z = z

    def sample(  # type: ignore[override]
        self, p: Tensor, z: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Choose actions by the means of their value distributions.

        Args:
            p: probabilities [T, B, A, P], [B, A, P] or [A, P].
            z: values of the atoms, [P]; ``None``: the values set by ``set_z``.
            mask: [.., A], not zero where actions are valid; ``None``: all are.

        Returns:
            [T, B], [B] or [] integers of ``dtype``.

        Raises:
            ValueError: z is neither passed nor set.
        """
        q = self.mean(p, z)
        self._check(q)
        noise = self._take_noise(q.shape[:-1], q.device)
        return super().draw(q, noise, None, mask).to(self.dtype)  # type: ignore[no-any-return]

    def draw(self, p: Any, noise: Any, epsilon: Any = None, mask: Any = None) -> Any:
        """Return the actions [*lead] that ``sample`` draws from this noise, for p [*lead, A, P]."""
        return super().draw(self.mean(p), noise, epsilon, mask)

    def mode(self, p: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the valid actions whose value distributions have the highest mean."""
        return super().mode(self.mean(p), mask)

    def mean(self, p: Any, z: Tensor | None = None) -> Any:
        """Return action values [*lead, A], the means of distributions p [*lead, A, P].

        Raises:
            ValueError: z is neither passed nor set.
        """
        z = self.z if z is None else z
        if z is None:
            raise ValueError(
                "z must be the values of the atoms [P], got None. Call set_z(z) first."
            )
        return p @ (z.numpy() if isinstance(p, np.ndarray) else z.to(p))


def valid_values(q: Q, mask: Any) -> Q:
    """Replace the values [*L, A] of invalid actions by minus infinity; arrays or tensors.

    Args:
        q: [*L, A].
        mask: [*L, A], not zero where actions are valid; ``None``: all are. Rows without a valid
            action, such as those after a terminal state, are not changed.
    """
    if mask is None:
        return q
    mask = mask if isinstance(q, np.ndarray) else mask.to(q.device)
    values: Q = namespace(q).where(valid_or_all(mask), q, -np.inf)
    return values
