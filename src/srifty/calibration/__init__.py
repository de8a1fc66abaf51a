"""Observed iteration times of real jobs → how fast the links between their VMs really are."""
