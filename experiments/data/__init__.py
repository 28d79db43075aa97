"""Data of the experiments: made with fixed seeds, or read from files. Always csr_array, float64, int32."""
