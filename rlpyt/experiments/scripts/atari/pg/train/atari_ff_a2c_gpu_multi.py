"""Alias of `atari_ff_a2c_gpu`, for the key `2gpu`."""

from rlpyt.experiments.scripts.atari.pg.train.atari_ff_a2c_gpu import build_and_train

if __name__ == "__main__":
    build_and_train.main()
