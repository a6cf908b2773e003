from pinprof.streams.stream import Stream

TOP = Stream(
    "top.txt",
    "what top shows of the program, once a second",
    "pinprof.collect.top",
    read="pinprof.collect.top:with_top",
    cut="pinprof.streams.window:appended",
    scrub="pinprof.streams.scrubs:TEXT",
)
