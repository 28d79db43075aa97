"""What all experiments share: cases, checks, interleaved timing, bandwidth, the machine, tables and JSON."""
