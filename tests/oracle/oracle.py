#!/usr/bin/env python3
"""Makes the expected rows of golden cases with an independent engine.

    tests/oracle/oracle.py [NAME ...]        all cases without names
    tests/oracle/oracle.py --flights         the flights job of the chaos tests

A case's `case.json` says which engine: "flink" runs the case's own job.sql with Flink 2.3 (with
the options that only Millrace has left out, see `for_flink`), "duckdb" runs the case's
oracle.sql with DuckDB, "hand" has expected rows written by hand, which are left alone.

Needs DuckDB's Python module, and in FLINK_LIB a directory with the jars of Flink 2.3 (flink-dist,
table planner and API, csv, json, connector-files, log4j) besides a JDK: both are for whoever
writes cases, `make test` needs neither.
"""

import datetime
import decimal
import glob
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent / "cases"

# Options of tables that Flink does not know, or that it knows otherwise.
ONLY_MILLRACE = re.compile(
    r",\s*'(?:csv\.header|source\.rows-per-second|sink\.rolling-policy\.rollover-interval)'\s*=\s*'[^']*'"
)


def statements(script):
    """Splits at semicolons outside of quotes, comments and statement sets."""
    found, current, depth, i = [], "", 0, 0
    while i < len(script):
        token = re.match(r"--[^\n]*|'(?:[^']|'')*'|`[^`]*`|\w+|.", script[i:], re.S).group(0)
        i += len(token)
        word = token.upper()
        if token.startswith("--"):
            continue
        if word == "BEGIN":
            depth += 1
        if word == "END" and depth and re.search(r";\s*$", current):
            depth -= 1
        if token == ";" and depth == 0:
            found.append(current.strip())
            current = ""
        else:
            current += token
    found.append(current.strip())
    return [s for s in found if s]


def for_flink(script, source, out):
    script = script.replace("${throttle}", "").replace("${in}", source).replace("${out}", out)
    script = ONLY_MILLRACE.sub("", script)
    script = script.replace("'format' = 'json'", "'format' = 'json', 'json.encode.decimal-as-plain-number' = 'true'")
    return "\n--@@\n".join(statements(script))


def sink_columns(script, table):
    """Precision of the timestamp columns of a table."""
    body = re.search(rf"CREATE\s+TABLE\s+{table}\s*\((.*?)\)\s*(?:PARTITIONED|WITH)", script, re.S | re.I)
    if body is None:
        return {}
    columns = re.findall(r"`?(\w+)`?\s+TIMESTAMP(?:_LTZ)?\((\d)\)", body.group(1), re.I)
    return {name: int(precision) for name, precision in columns}


def pad(text, precision):
    """Flink leaves zeros at the end of a fraction out, Millrace writes the column's precision."""
    match = re.fullmatch(r"(\d+-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?(Z?)", text)
    if match is None or precision == 0:
        return text
    day, clock, fraction, zone = match.groups()
    return f"{day} {clock}.{(fraction or '').ljust(precision, '0')}{zone}"


def rewrite(line, columns):
    """Pads times without touching anything else: numbers keep their digits."""
    def column(match):
        name = match.group(1)
        return f'"{name}":"{pad(match.group(2), columns[name])}"' if name in columns else match.group(0)
    return re.sub(r'"(\w+)":"([^"\\]*)"', column, line)


def store(case, name, lines):
    folder = case / "out"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.ndjson").write_text("".join(line + "\n" for line in lines))


def flink(cases):
    lib = os.environ.get("FLINK_LIB", "")
    jars = glob.glob(f"{lib}/*.jar")
    if not jars:
        raise SystemExit("FLINK_LIB must name a directory with Flink's jars")
    work = pathlib.Path(tempfile.mkdtemp(prefix="flink-cases-"))
    subprocess.run(
        ["javac", "-cp", ":".join(jars), "-d", work, HERE / "FlinkCases.java"], check=True
    )
    (work / "log4j2.properties").write_text("rootLogger.level = ERROR\n")
    scripts = {}
    for case in cases:
        script = work / f"{case.name}.sql"
        script.write_text(for_flink((case / "job.sql").read_text(), str(case / "in"), str(work / "out" / case.name)))
        scripts[str(script)] = case
    opens = [
        "java.base/java.lang", "java.base/java.util", "java.base/java.net", "java.base/java.nio",
        "java.base/java.time", "java.base/sun.nio.ch", "java.base/java.util.concurrent",
    ]
    run = subprocess.Popen(
        ["java", "-Xmx2g", *[a for o in opens for a in ("--add-opens", f"{o}=ALL-UNNAMED")],
         f"-Dlog4j.configurationFile={work}/log4j2.properties",
         "-cp", ":".join([str(work), *jars]), "FlinkCases", *scripts],
        stdout=subprocess.PIPE, text=True,
    )
    failed = []
    for line in run.stdout:
        verdict, _, rest = line.strip().partition(" ")
        if verdict not in ("OK", "FAILED"):
            continue
        case = scripts[rest.split(" ")[0]]
        if verdict == "FAILED":
            print(case.name, "FAILED", rest[len(str(work)):][:700], flush=True)
            failed.append(case.name)
            continue
        sql = (case / "job.sql").read_text()
        spec = json.loads((case / "case.json").read_text())
        for name in sinks(sql, spec):
            lines = []
            for path in sorted(glob.glob(f"{work}/out/{case.name}/{name}/**/*", recursive=True)):
                if os.path.isfile(path):
                    lines += pathlib.Path(path).read_text().split("\n")[:-1]
            columns = sink_columns(sql, name)
            lines = [rewrite(line, columns) for line in lines]
            compare = spec.get("sinks", {}).get(name, spec["compare"])
            if compare == "final-state":
                lines = final_state(lines)
            elif compare == "multiset":
                lines.sort()
            store(case, name, lines)
            print(case.name, name, len(lines), "rows", flush=True)
    run.wait()
    shutil.rmtree(work)
    return failed


def sinks(sql, spec):
    return sorted(spec["sinks"]) if "sinks" in spec else re.findall(r"\$\{out\}/(\w+)", sql)


def final_state(lines):
    """Applies a changelog; a row that is taken back must be there."""
    rows = []
    for line in lines:
        match = re.fullmatch(r'\{"before":(null|\{.*\}),"after":(null|\{.*\}),"op":"([cd])"\}', line)
        before, after, op = match.groups()
        if op == "c":
            rows.append(after)
        else:
            rows.remove(before)
    return sorted(rows)


def json_value(v):
    """A value of DuckDB as Millrace's JSON format writes it."""
    if isinstance(v, datetime.datetime):
        return json.dumps(v.strftime("%Y-%m-%d %H:%M:%S.") + f"{v.microsecond // 1000:03}")
    if isinstance(v, datetime.date):
        return json.dumps(str(v))
    if isinstance(v, decimal.Decimal):
        return str(v)
    if isinstance(v, list):
        return "[" + ",".join(json_value(x) for x in v) + "]"
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps(k) + ":" + json_value(x) for k, x in v.items()) + "}"
    return json.dumps(v, ensure_ascii=False)


def json_lines(cursor):
    columns = [c[0] for c in cursor.description]
    for row in cursor.fetchall():
        yield "{" + ",".join(json.dumps(c) + ":" + json_value(v) for c, v in zip(columns, row)) + "}"


def flights():
    import duckdb as engine

    data = HERE.parent.parent / "examples" / "data" / "flights-2013-01.ndjson.gz"
    query = (HERE / "flights.sql").read_text().replace("${in}", str(data))
    lines = list(json_lines(engine.connect().execute(query)))
    folder = HERE.parent / "chaos"
    folder.mkdir(exist_ok=True)
    with open(folder / "flights.ndjson.gz", "wb") as file:
        with gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            packed.write("".join(line + "\n" for line in lines).encode())
    print("flights", len(lines), "rows")


def duckdb(case):
    import duckdb as engine

    sql = (case / "oracle.sql").read_text()
    connection = engine.connect()
    connection.execute("SET TimeZone = 'UTC'")
    spec = json.loads((case / "case.json").read_text())
    names = sinks((case / "job.sql").read_text(), spec)
    parts = re.split(r"(?m)^-- sink: (\w+)$", sql)
    prelude, rest = parts[0], parts[1:]
    if prelude.strip():
        connection.execute(prelude.replace("${in}", str(case / "in")))
    queries = dict(zip(rest[::2], rest[1::2]))
    assert sorted(queries) == sorted(names), (sorted(queries), names)

    for name, query in queries.items():
        cursor = connection.execute(query.replace("${in}", str(case / "in")))
        lines = sorted(json_lines(cursor))
        store(case, name, lines)
        print(case.name, name, len(lines), "rows", flush=True)


def main():
    if sys.argv[1:] == ["--flights"]:
        flights()
        return
    names = sys.argv[1:] or sorted(p.parent.name for p in CASES.glob("*/case.json"))
    by_engine = {"flink": [], "duckdb": [], "hand": []}
    for name in names:
        case = CASES / name
        by_engine[json.loads((case / "case.json").read_text())["oracle"]].append(case)
    for case in by_engine["duckdb"]:
        duckdb(case)
    failed = flink(by_engine["flink"]) if by_engine["flink"] else []
    if failed:
        raise SystemExit(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
