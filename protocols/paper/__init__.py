"""The paper's protocols with the paper's constants, one file each."""
