"""Alias of `mujoco_ff_ppo_serial`."""

from rlpyt.experiments.scripts.mujoco.pg.train.mujoco_ff_ppo_serial import build_and_train

if __name__ == "__main__":
    build_and_train.main()
