"""`atari_dqn_gpu` by another name, for the key `rmsprop`."""

from rlpyt.experiments.scripts.atari.dqn.train.atari_dqn_gpu import build_and_train

if __name__ == "__main__":
    build_and_train.main()
