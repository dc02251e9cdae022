"""Step networks with memory through replayed sequences, one row at a time."""

import torch


class Walker:
    """One network, one environment, one row at a time."""

    def __init__(self, model, state, *args):
        self.model, self.state, self.args = model, state, args

    def see(self, observation, prev_action, prev_reward):
        onehot = torch.nn.functional.one_hot(prev_action, 3).float()
        inputs = (observation[None, None], onehot[None, None], prev_reward[None, None])
        with torch.no_grad():
            output, self.state = self.model(*inputs, *self.args, self.state)
        return output[0, 0]

    def glimpse(self, *inputs):
        kept = self.state
        output = self.see(*inputs)
        self.state = kept
        return output


def walk(batch, b, networks):
    """Return the outputs of networks in every row, and of final observations by row.

    Args:
        batch: replayed sequences.
        b: index of the sequence.
        networks: models, or tuples of a model and further arguments.
    """
    finals = {}
    if batch.final is not None:
        for t, own, o in zip(batch.final.T_idxs, batch.final.B_idxs, batch.final.observation):
            if own == b:
                finals[int(t)] = o
    rows, ends = [], {}
    recorded = batch.init_rnn_state[b][:, None]  # [N, 1, H]
    networks = [x if isinstance(x, tuple) else (x,) for x in networks]
    walkers = [Walker(model, recorded.clone(), *args) for model, *args in networks]
    zero = torch.zeros((), dtype=torch.long)
    for t in range(len(batch.all_reward)):
        begins = t > 0 and bool(batch.all_done[t - 1, b])
        if begins:
            for walker in walkers:
                walker.state = None
        action = zero if begins else batch.all_action[t, b]
        reward = zero.float() if begins else batch.all_reward[t, b]
        rows.append([w.see(batch.all_observation[t, b], action, reward) for w in walkers])
        if t in finals:
            after = (finals[t], batch.all_action[t + 1, b], batch.all_reward[t + 1, b])
            ends[t] = [w.glimpse(*after) for w in walkers]
    return rows, ends


def after_return(batch, b, t, n, rows, ends):
    """Return the outputs from which the target of row t bootstraps."""
    for k in range(n):
        if batch.all_done[t + k, b]:
            return ends.get(t + k, rows[t + n])
    return rows[t + n]
