"""Samplers: environments stepped and agents acting, one layout or another."""
