"""Programs on devices with a memory of their own: one engine, a driver for each API."""
