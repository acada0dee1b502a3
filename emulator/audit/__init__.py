"""What a transcript proves: each check reads the record as a stream and gives a verdict with its evidence."""
