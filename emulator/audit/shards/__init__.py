"""What is checked besides where a run had several boards."""
