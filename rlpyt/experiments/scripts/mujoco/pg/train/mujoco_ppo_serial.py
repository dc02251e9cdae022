"""`mujoco_ff_ppo_serial` by another name."""

from rlpyt.experiments.scripts.mujoco.pg.train.mujoco_ff_ppo_serial import build_and_train

if __name__ == "__main__":
    build_and_train.main()
