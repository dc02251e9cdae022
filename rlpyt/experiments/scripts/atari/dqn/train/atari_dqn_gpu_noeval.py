"""Alias of `atari_dqn_gpu`, for the key `no_eval`."""

from rlpyt.experiments.scripts.atari.dqn.train.atari_dqn_gpu import build_and_train

if __name__ == "__main__":
    build_and_train.main()
