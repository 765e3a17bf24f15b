#!/usr/bin/env python3
"""Makes examples/data/flights-2013-01.ndjson.gz from the nycflights13 data set.

Flights out of New York's three airports in January 2013, one JSON object per line, in the
order in which they really left: the scheduled departure, which is the event time, is
therefore truly out of order. Cancelled flights have no departure; they stand where they were
scheduled.

    scripts/make-flights-example.py FLIGHTS_CSV_ZIP [--out FILE]

Prints how far out of order the rows are. The output depends on the input alone. Only the
standard library is needed.
"""

import argparse
import bisect
import csv
import gzip
import io
import json
import zipfile
from datetime import datetime, timedelta

YEAR, MONTH = 2013, 1
OUT = "examples/data/flights-2013-01.ndjson.gz"


def integer(text):
    """A whole number, or None for the data set's NA."""
    return None if text in ("", "NA") else int(text)


def clock(day, hhmm):
    """The time HHMM (515 is 05:15) on a day."""
    return day + timedelta(hours=hhmm // 100, minutes=hhmm % 100)


def read(path):
    """The month's flights as (order, row) pairs, in the order of the file."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        for source in csv.DictReader(io.TextIOWrapper(raw, "utf-8")):
            if int(source["year"]) != YEAR or int(source["month"]) != MONTH:
                continue
            day = datetime(YEAR, MONTH, int(source["day"]))
            sched = clock(day, int(source["sched_dep_time"]))
            delay = integer(source["dep_delay"])
            actual = None
            if delay is not None:
                # Not from dep_time, which lacks the date: flights leave the day after
                # (up to 22 hours late), or before midnight though scheduled for after.
                actual = sched + timedelta(minutes=delay)
                hhmm = int(source["dep_time"]) % 2400
                if (actual.hour, actual.minute) != divmod(hhmm, 100):
                    raise SystemExit(f"dep_time and dep_delay disagree: {source}")
            row = {
                "sched_dep": str(sched),
                "actual_dep": None if actual is None else str(actual),
                "carrier": source["carrier"],
                "flight": int(source["flight"]),
                "tailnum": None if source["tailnum"] in ("", "NA") else source["tailnum"],
                "origin": source["origin"],
                "dest": source["dest"],
                "dep_delay": delay,
                "arr_delay": integer(source["arr_delay"]),
                "distance": int(source["distance"]),
                "air_time": integer(source["air_time"]),
                "cancelled": actual is None,
            }
            yield (actual or sched, sched, row["carrier"], row["flight"], row["origin"]), row


def report(rows):
    """Prints how far rows lie behind the newest event time before them."""
    newest = datetime.min
    behind = []
    for row in rows:
        sched = datetime.fromisoformat(row["sched_dep"])
        newest = max(newest, sched)
        behind.append(int((newest - sched).total_seconds()) // 60)
    behind.sort()
    print(f"{len(rows)} rows, {sum(row['cancelled'] for row in rows)} cancelled")
    for share in (50, 75, 90, 95, 99, 99.9, 100):
        at = min(len(behind) - 1, int(len(behind) * share / 100))
        print(f"{share:5}% of rows at most {behind[at]} min behind the newest")
    for hours in (1, 2, 3, 4, 5, 6, 8, 12):
        late = len(behind) - bisect.bisect_right(behind, hours * 60)
        print(f"more than {hours:2} h behind: {late} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("flights", help="flights.csv.zip of nycflights13")
    parser.add_argument("--out", default=OUT, help=f"default: {OUT}")
    options = parser.parse_args()
    rows = [row for _, row in sorted(read(options.flights), key=lambda pair: pair[0])]
    # Neither name nor time in the header, so that the same rows give the same bytes.
    with open(options.out, "wb") as file:
        with gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            for row in rows:
                line = json.dumps(row, separators=(",", ":"))
                packed.write(line.encode() + b"\n")
    report(rows)


if __name__ == "__main__":
    main()
