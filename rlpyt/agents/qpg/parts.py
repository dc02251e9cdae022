"""Policies over discrete choices and Boxes, for soft actor-critic on any action space."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlpyt.agents.spaces import ActionScale, action_parts, is_discrete
from rlpyt.distributions.base import Distribution
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.distributions.joint import Joint
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.models.observation import is_composite
from rlpyt.models.pg.joint import output_sizes
from rlpyt.spaces.action_mask import valid_or_all
from rlpyt.spaces.base import Space
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.utils.buffer import buffer_func, buffer_to, leaves_of
from rlpyt.utils.tensor import to_onehot

MAX_COMBINATIONS = 64  # largest number of combinations of choices that critics enumerate


class Draw(NamedTuple):
    """Actions drawn from a policy in which enumerated choices are left as probabilities.

    Attributes:
        vector: [.., F], further input of the critics: components of Boxes in units of [-1, 1], and
            one-hot vectors of choices that are not enumerated.
        prob: [.., C], probabilities of the combinations of enumerated choices; ``None``: there are
            no choices.
        score: [..], log-likelihood of what was drawn without reparameterization; ``None``: nothing.
    """

    vector: Tensor
    prob: Tensor | None
    score: Tensor | None


class PolicyParts:
    """Independent parts of a policy: a distribution for each part of an action.

    The critics return a value for each combination of choices of the first discrete components, so
    expectations over these are sums. Components are enumerated in order while they have at most
    ``MAX_COMBINATIONS`` combinations; the first one always is. All other parts of an action are
    inputs of the critics.

    Args:
        action_space: Discrete, MultiDiscrete, MultiBinary, or (nested) Dict and Tuple spaces of
            them and of Boxes.
        make_gaussian: function that returns the distribution of a Box, given its size.

    Attributes:
        sizes: for each part the number of choices of each component, a tuple, or of components of
            the Box, an integer.
        n_parts: P, number of parts.
        names: name of each part, such as "arm.force"; "" for a space without parts.
        distribution: distribution of actions, with Boxes in units of [-1, 1].
        gaussians: distributions of the Boxes.
        size: D, size of an action in the models' form, see ``to_unit``.
        n_combinations: C, number of combinations of enumerated choices; ``None``: no choices.
        input_size: F, size of the critics' further input.

    Raises:
        TypeError: a part is not supported; the message names it.
        ValueError: a component of a Box has no bounds; the message names the part.
    """

    def __init__(self, action_space: Space, make_gaussian: Callable[[int], Gaussian]) -> None:
        self.sizes = action_parts(action_space)
        self.n_parts, self.size = len(self.sizes), sum(output_sizes(self.sizes))
        leaves = leaf_spaces(action_space)
        self.names = [path.removeprefix(".") for path, _ in leaves]
        self._scales: list[ActionScale | None] = []
        self._parts: list[Distribution] = []
        for (path, space), size in zip(leaves, self.sizes, strict=True):
            if isinstance(size, int):
                self._scales.append(_scale_of(space, path))
                self._parts.append(make_gaussian(size))
            else:
                self._scales.append(None)
                single = is_discrete(space)
                self._parts.append(Categorical(size[0]) if single else MultiCategorical(size))
        self.is_joint = is_composite(action_space.shape)
        self.distribution: Any = self._parts[0]
        if self.is_joint:
            self.distribution = Joint(self._parts, action_space.null_value())
        self.gaussians = [part for part in self._parts if isinstance(part, Gaussian)]
        self._set_enumeration()

    def _set_enumeration(self) -> None:
        n_choices = [n for size in self.sizes if isinstance(size, tuple) for n in size]
        self._n_choices = n_choices
        n_enumerated, C = min(len(n_choices), 1), n_choices[0] if n_choices else 1
        for n in n_choices[1:]:
            if n * C > MAX_COMBINATIONS:
                break
            n_enumerated, C = n_enumerated + 1, n * C
        self.n_combinations = C if n_choices else None
        self._enumerated, others = n_choices[:n_enumerated], n_choices[n_enumerated:]
        self._drawn = [Categorical(n) for n in others]
        self.input_size = sum(size for size in self.sizes if isinstance(size, int)) + sum(others)

    # Acting.

    def dist_info(self, *outputs: Any) -> Any:
        """Return the record of all parts' parameters, given the model's outputs in order."""
        remaining = iter(outputs)
        infos = [
            DistInfoStd(next(remaining), next(remaining))
            if isinstance(size, int)
            else DistInfo(next(remaining))
            for size in self.sizes
        ]
        return self.distribution.DistInfo(*infos) if self.is_joint else infos[0]

    def to_space(self, action: Any) -> Any:
        """Return actions with Boxes in the space's units instead of [-1, 1]."""
        scales = iter(self._scales)

        def convert(leaf: Any) -> Any:
            scale = next(scales)
            return leaf if scale is None else scale.to_space(leaf)

        return buffer_func(action, convert)

    def to_unit(self, action: Any) -> Tensor:
        """Return one-hot vectors of all choices and Boxes in units of [-1, 1], [.., D]."""
        boxes, choices = self._split(action)
        pairs = zip(choices, self._n_choices, strict=True)
        return torch.cat([*boxes, *(to_onehot(x, n, torch.float32) for x, n in pairs)], -1)

    # Training.

    def q_values(self, network: Any, inputs: tuple[Any, ...], action: Any, device: Any) -> Any:
        """Return values [E, ..] of recorded actions; [E, .., C] of all choices of a ``Draw``."""
        if isinstance(action, Draw):
            return network(*inputs, action.vector)
        vector, index = self.critic_input(buffer_to(action, device))
        q = network(*inputs, vector)
        if index is None:
            return q
        return q.gather(-1, index.expand(q.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def critic_input(self, action: Any) -> tuple[Tensor, Tensor | None]:
        """Return the critics' further input for recorded actions, and the combination chosen.

        Args:
            action: actions in the space's units, leaves [.., ...].

        Returns:
            [.., F] float32; [..] int64, the index among the C combinations, or ``None``.
        """
        boxes, choices = self._split(action)
        index: Tensor | None = None
        for choice, n in zip(choices, self._enumerated, strict=False):
            index = choice if index is None else index * n + choice
        others = choices[len(self._enumerated) :]
        inputs = [*boxes, *(d.to_onehot(x) for d, x in zip(self._drawn, others, strict=True))]
        return _joined(inputs, index), index

    def _split(self, action: Any) -> tuple[list[Tensor], list[Tensor]]:
        """Return Boxes in units of [-1, 1], each [.., A], and choices of all components, [..]."""
        boxes: list[Tensor] = []
        choices: list[Tensor] = []
        for part, scale, leaf in zip(self._parts, self._scales, leaves_of(action), strict=True):
            if scale is not None:
                boxes.append(scale.to_unit(leaf))
            elif isinstance(part, MultiCategorical):
                choices += leaf.long().unbind(-1)
            else:
                choices.append(leaf.long())
        return boxes, choices

    def draw(self, dist_info: Any, reparameterize: bool = True) -> tuple[Draw, Tensor]:
        """Draw actions for the critics, and compute the log-likelihood of each part.

        Args:
            dist_info: parameters, from ``dist_info``.
            reparameterize: if False, Boxes have no gradient, but count in the score.

        Returns:
            The draw; log-likelihoods [.., P] of P parts, for discrete parts their expectation, the
            negative entropy.
        """
        boxes: list[Tensor] = []
        probs: list[Tensor] = []
        log_pi: list[Tensor] = []
        scores: list[Tensor] = []
        for part, size, info in zip(self._parts, self.sizes, self._infos(dist_info), strict=True):
            if isinstance(part, Gaussian):
                box, logli = part.sample_loglikelihood(info, reparameterize)
                boxes.append(box)
                log_pi.append(logli)
                scores += [] if reparameterize else [logli]
            else:
                assert isinstance(size, tuple)
                probs += info.prob.split(size, -1)
                log_pi.append(-part.entropy(info))
        inputs = boxes
        for categorical, prob in zip(self._drawn, probs[len(self._enumerated) :], strict=True):
            choice = categorical.sample(DistInfo(prob.detach()))
            inputs.append(categorical.to_onehot(choice))
            scores.append(categorical.log_likelihood(choice, DistInfo(prob)))
        joint: Tensor | None = None
        for prob in probs[: len(self._enumerated)]:
            joint = prob if joint is None else (joint[..., None] * prob[..., None, :]).flatten(-2)
        score = sum(scores[1:], scores[0]) if scores else None
        return Draw(_joined(inputs, log_pi[0]), joint, score), torch.stack(log_pi, -1)

    def _infos(self, dist_info: Any) -> Iterator[Any]:
        return iter(tuple(dist_info) if self.is_joint else (dist_info,))

    def target_entropies(
        self, share: float, mask: Tensor | None = None, per_dimension: float = -1.0
    ) -> Tensor:
        """Return the target entropy of each part, [P], or [.., P] with a mask.

        It is ``share`` times the largest entropy of choices, the logarithm of the number of valid
        ones, summed over components, and for a Box ``per_dimension`` times their number.

        Args:
            share: share of the largest entropy.
            mask: [.., n], not zero where choices are valid; ``None``: all are.
            per_dimension: target of each component of a Box.
        """
        if mask is None:
            largest = torch.tensor(self._n_choices, dtype=torch.float32).log()
        else:
            parts = torch.split(mask, self._n_choices, -1)
            counts = [valid_or_all(part).sum(-1, dtype=torch.float32) for part in parts]
            largest = torch.stack(counts, -1).log()
        targets, first = [], 0
        for size in self.sizes:
            if isinstance(size, int):
                lead, device = largest.shape[:-1], largest.device
                target = per_dimension * size
                targets.append(torch.full(lead, target, dtype=torch.float32, device=device))
            else:
                own = largest[..., first : first + len(size)]
                targets.append(share * own.sum(-1))
                first += len(size)
        return torch.stack(targets, -1)


def _scale_of(space: Space, path: str) -> ActionScale:
    try:
        return ActionScale(space, bounded=True)
    except ValueError as error:
        raise ValueError(f"part 'action{path}' of the action space: {error}") from None


def _joined(inputs: list[Tensor], like: Tensor | None) -> Tensor:
    """Concatenate along the last dimension; without inputs, return [.., 0] for ``like`` [..]."""
    if inputs:
        return torch.cat(inputs, -1)
    assert like is not None
    return torch.zeros((*like.shape, 0), dtype=torch.float32, device=like.device)
