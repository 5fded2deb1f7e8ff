"""Files: arrays by name in .safetensors and .npz, written whole or not at all."""
