"""Launching of many experiments on the hardware of one machine."""
