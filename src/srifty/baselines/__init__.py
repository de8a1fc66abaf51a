"""What others would have forecast: the baselines, behind the same signatures as the simulator."""
