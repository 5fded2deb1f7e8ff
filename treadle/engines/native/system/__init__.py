"""The machine that code is generated for: its processor and its memory."""
