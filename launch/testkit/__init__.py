"""What `parley test` is made of: schedules, small worlds, contracts and accuracy of any protocol."""
