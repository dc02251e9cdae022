"""Named array tuples and buffers, as analysis scripts use them."""

import numpy as np
import torch

from rlpyt.samplers.buffer import get_example_outputs
from rlpyt.utils.array import select_at_indexes, valid_mean
from rlpyt.utils.buffer import (
    buffer_from_example,
    buffer_func,
    buffer_method,
    buffer_to,
    get_leading_dims,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import AttrDict, is_namedarraytuple, namedarraytuple
from rlpyt.utils.misc import extract_sequences, iterate_mb_idxs

Transition = namedarraytuple("Transition", ["state", "info"])
Info = namedarraytuple("Info", ["score", "flag"])

if __name__ == "__main__":
    example = Transition(np.zeros(3, "float32"), Info(np.float32(0), True))
    buffer = buffer_from_example(example, (4, 2), share_memory=True)
    buffer[1] = 1
    buffer[2:, 0] = Transition(np.ones(3), None)
    buffer.info.score[0, 1] = 7
    assert is_namedarraytuple(buffer) and buffer.state[3, 0, 2] == 1 and buffer[1].info.flag.all()
    tensors = torchify_buffer(buffer)
    tensors.state[0] = 5  # the same memory
    assert buffer.state[0, 0, 0] == 5
    assert get_leading_dims(buffer, 2) == (4, 2)
    doubled = buffer_func(buffer_method(tensors, "float"), lambda x: 2 * x)
    assert numpify_buffer(buffer_to(doubled, "cpu")).info.score[0, 1] == 14
    assert valid_mean(np.array([1.0, 2.0, 9.0]), np.array([1, 1, 0])) == 1.5
    assert select_at_indexes(np.array([1, 0]), np.array([[1, 2], [3, 4]])).tolist() == [2, 3]
    rows = np.arange(6).reshape(6, 1)
    assert extract_sequences(rows, np.array([4]), np.array([0]), 3)[:, 0].tolist() == [4, 5, 0]
    assert sum(len(idxs) for idxs in iterate_mb_idxs(7, 2, shuffle=True)) == 6
    settings = AttrDict(lr=1e-3, env=dict(id="x"))
    assert settings.lr == 1e-3 and settings.copy().env["id"] == "x"

    from common import PolicyAgent, Walk

    env, agent, examples = Walk(), PolicyAgent(), {}
    agent.initialize(env.spaces)
    get_example_outputs(agent, env, examples)
    assert examples["observation"].shape == (5,)
    assert {"action", "reward", "done", "env_info", "agent_info"} <= set(examples)
    assert isinstance(torch.as_tensor(examples["reward"]), torch.Tensor)
