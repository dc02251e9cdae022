"""Distributions of returns over fixed atoms, from Atari images (Bellemare et al. 2017)."""

from collections.abc import Sequence
from typing import Any

from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.heads import DistributionalHeadModel as DistributionalHeadModel  # noqa: PLC0414 (rlpyt's home of it)


class AtariCatDqnModel(AtariDqnModel):
    """Probabilities of P atoms for each action, [*lead, A, P], from images.

    Args:
        image_shape, output_size, *args, **kwargs: arguments of `AtariDqnModel`.
        n_atoms: P, number of atoms.
    """

    softmax = True

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_atoms: int = 51,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(image_shape, output_size, *args, n_atoms=n_atoms, **kwargs)
