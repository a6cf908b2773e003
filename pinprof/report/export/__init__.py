"""A recording in other tools' formats and as data; `formats.EXPORTS` names them all."""
