"""GTrXL: gated transformer layers over a window of the last steps, as a recurrent layer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple

# window: inputs of all layers at the last W steps, [N * W, B, H]; length: number of these steps
# that belong to the episode, [1, B, 1]. Zeros are an empty window.
WindowState = namedarraytuple("WindowState", ["window", "length"])


class Gtrxl(nn.Module):
    """A gated transformer-XL (Parisotto et al. 2019), with the interface of a recurrent layer.

    Each layer attends to its own inputs at the current step and at the W steps before it in the
    same episode, with relative positions (Dai et al. 2019), then applies an MLP. Both are followed
    by gates like those of a GRU, which initially pass the layer's input on. N layers can read up
    to N * W steps back.

    The recurrent state is the window: the inputs of all layers at the last W steps. Gradients do
    not reach steps before the sequence.

    Args:
        input_size: number of input components.
        hidden_size: H, number of output components, and of each head's keys all together.
        window: W, number of earlier steps that attention reads.
        num_layers: N, number of layers.
        num_heads: number of attention heads.

    Raises:
        TypeError, ValueError: a number is not an integer above 0, or ``num_heads`` does not divide
            ``hidden_size``.
    """

    takes_starts = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        window: int = 16,
        num_layers: int = 2,
        num_heads: int = 4,
    ) -> None:
        super().__init__()
        self.attention_window = whole_number("window", window, 1)
        num_layers = whole_number("num_layers", num_layers, 1)
        self.embed = nn.Linear(input_size, hidden_size)
        layers = (_Layer(hidden_size, self.attention_window, num_heads) for _ in range(num_layers))
        self.layers = nn.ModuleList(layers)

    def forward(
        self, input: Tensor, state: NamedArrayTuple | None = None, starts: Tensor | None = None
    ) -> tuple[Tensor, NamedArrayTuple]:
        """Run T steps.

        Args:
            input: [T, B, input_size].
            state: `WindowState` before the first step; ``None``: an empty window.
            starts: [T, B] bool, steps at which an episode starts; ``None``: none.

        Returns:
            Outputs [T, B, H], and the state after the last step.
        """
        x, W = self.embed(input), self.attention_window
        T, B, H = x.shape
        if state is None:
            windows = x.new_zeros(len(self.layers), W, B, H)
            length = x.new_zeros(B)
        else:
            windows = state.window.reshape(len(self.layers), W, B, H)
            length = state.length[0, :, 0]
        # Number of each step's episode: 0 for the one of the state, -1 where the window is empty.
        age = torch.arange(W, 0, -1, device=x.device).unsqueeze(1)  # [W, 1]
        before = torch.where(age <= length, 0, -1)
        zeros = torch.zeros(T, B, dtype=torch.long, device=x.device)
        during = zeros if starts is None else starts.cumsum(0)
        episode = torch.cat([before, during])  # [W + T, B]
        blocks = _Blocks(episode, W)
        alive = episode[-W:] == episode[-1]  # [W, B]
        next_windows = []
        for layer, window in zip(self.layers, windows, strict=True):
            context = torch.cat([window.to(x), x])
            next_windows.append(context[-W:] * alive.unsqueeze(-1))
            x = layer(context, blocks)
        next_state = WindowState(
            window=torch.cat(next_windows).float(),
            length=alive.sum(0, dtype=torch.float32).reshape(1, B, 1),
        )
        return x, next_state


class _Blocks:
    """T steps cut into n blocks of C, each with the C + W steps that it attends to.

    Blocks of W steps, or fewer in a short sequence, keep the cost proportional to T * W.

    Args:
        episode: [W + T, B], number of the episode of every step and of the W steps before.
        window: W.
    """

    def __init__(self, episode: Tensor, window: int) -> None:
        device = episode.device
        self.T = T = len(episode) - window
        self.C = C = min(T, window)
        self.K = K = C + window
        first = torch.arange(0, T, C, device=device).unsqueeze(1)  # [n, 1]
        # Rows of the last block beyond the sequence repeat its last step; they are cut off later.
        self.keys = (first + torch.arange(K, device=device)).clamp(max=T + window - 1)  # [n, K]
        self.queries = self.keys[:, window:] - window  # [n, C]
        offset = torch.arange(K, device=device) - torch.arange(C, device=device).unsqueeze(1)
        near = (offset >= 0) & (offset <= window)  # [C, K]; the query itself is at W
        of_keys = episode[self.keys].transpose(1, 2).unsqueeze(2)  # [n, B, 1, K]
        same = of_keys == of_keys[..., window:].transpose(2, 3)  # [n, B, C, K]
        self.hidden = ~(near & same).unsqueeze(2)  # [n, B, 1, C, K]

    def by_offset(self, scores: Tensor) -> Tensor:
        """Shift scores [.., C, W + 1] of offsets to columns of keys [.., C, K]."""
        # Row c moves right by c: rows of K + 1 entries are read as rows of K.
        padded = F.pad(scores, (0, self.C)).flatten(-2)[..., : self.C * self.K]
        return padded.reshape(*scores.shape[:-2], self.C, self.K)


class _Layer(nn.Module):
    """Attention to the window and an MLP, each after a normalization and before a gate."""

    def __init__(self, size: int, window: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = whole_number("num_heads", num_heads, 1)
        if size % num_heads:
            raise ValueError(
                f"num_heads={num_heads} must divide the size of the memory, {size}. Change one "
                "of the two."
            )
        self.norm = nn.LayerNorm(size)
        self.query = nn.Linear(size, size)  # its bias is u of Dai et al.
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size, bias=False)
        self.position = nn.Linear(size, size, bias=False)
        self.position_bias = nn.Parameter(torch.zeros(size))  # v - u
        self.output = nn.Linear(size, size)
        self.gate = _Gate(size)
        self.mlp = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.ReLU(), nn.Linear(4 * size, size)
        )
        self.mlp_gate = _Gate(size)
        self.register_buffer("waves", sinusoids(window, size), persistent=False)

    def forward(self, context: Tensor, blocks: _Blocks) -> Tensor:
        """Return outputs [T, B, H], given the inputs at all steps [W + T, B, H]."""
        x = context[-blocks.T :]
        x = self.gate(x, F.relu(self.attend(self.norm(context), blocks)))
        return self.mlp_gate(x, F.relu(self.mlp(x)))  # type: ignore[no-any-return]

    def attend(self, context: Tensor, blocks: _Blocks) -> Tensor:
        """Return the result of attention [T, B, H] at the last T steps of the context."""

        def heads(x: Tensor) -> Tensor:
            return x.reshape(*x.shape[:-1], self.num_heads, -1)

        T, W = blocks.T, len(context) - blocks.T
        query = self.query(context[W:])[blocks.queries]  # [n, C, B, H]
        key = heads(self.key(context)[blocks.keys])  # [n, K, B, heads, d]
        value = heads(self.value(context)[blocks.keys])
        content = torch.einsum("ncbhd,nkbhd->nbhck", heads(query), key)
        offset = heads(self.position(self.waves))  # [W + 1, heads, d]
        position = torch.einsum("ncbhd,whd->nbhcw", heads(query + self.position_bias), offset)
        scores = (content + blocks.by_offset(position)) * key.shape[-1] ** -0.5
        weights = scores.masked_fill(blocks.hidden, -torch.inf).softmax(-1)
        read = torch.einsum("nbhck,nkbhd->ncbhd", weights, value)
        return self.output(read.flatten(-2).flatten(0, 1)[:T])  # type: ignore[no-any-return]


class _Gate(nn.Module):
    """Combine a layer's input x and its result y as a GRU combines state and input.

        g(x, y) = (1 - z) x + z tanh(W y + U (r x)),    r = sigmoid(..), z = sigmoid(.. - 2)

    The initial bias of z, -2, makes the layer nearly the identity at the beginning of training.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_y = nn.Linear(size, 3 * size)
        self.of_x = nn.Linear(size, 2 * size, bias=False)
        self.candidate = nn.Linear(size, size, bias=False)
        nn.init.zeros_(self.of_y.bias)
        self.of_y.bias.data[size : 2 * size] = -2.0

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return g(x, y), each [.., H]."""
        reset, update, candidate = self.of_y(y).chunk(3, -1)
        reset_x, update_x = self.of_x(x).chunk(2, -1)
        reset, update = torch.sigmoid(reset + reset_x), torch.sigmoid(update + update_x)
        return torch.lerp(x, torch.tanh(candidate + self.candidate(reset * x)), update)


def sinusoids(window: int, size: int) -> Tensor:
    """Return sines and cosines of distances, [W + 1, size]; row w is the distance W - w."""
    rates = 10_000.0 ** -torch.linspace(0, 1, (size + 1) // 2)
    angles = torch.arange(window, -1, -1).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :size]
