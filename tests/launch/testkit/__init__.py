"""The test kit, tested: planted faults are found, good protocols pass, and the command says so in every form."""
