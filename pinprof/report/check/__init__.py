"""How a check is shown: what CI systems read, and the words and places that all of its outputs share."""
