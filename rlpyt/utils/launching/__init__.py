"""Running many experiments on the hardware of one machine."""
