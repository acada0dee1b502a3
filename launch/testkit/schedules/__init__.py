"""Many schedules in virtual time: what is drawn, how it is played and judged, and how a failing one is shrunk."""
