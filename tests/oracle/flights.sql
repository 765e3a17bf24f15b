-- Expected rows of the flights job, late rows left out as a watermark after every row leaves them:
-- a row is late when the window's last millisecond is not after the newest scheduled departure
-- before it, less four hours.
WITH numbered AS (
  SELECT row_number() OVER () AS place, * FROM read_json('${in}', format = 'newline_delimited', columns = {
    sched_dep: 'TIMESTAMP', origin: 'VARCHAR', dep_delay: 'INT', cancelled: 'BOOLEAN'})
), judged AS (
  SELECT *, time_bucket(INTERVAL 1 HOUR, sched_dep) AS w,
    max(sched_dep) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) - INTERVAL 4 HOUR AS watermark
  FROM numbered
)
SELECT w AS window_start, w + INTERVAL 1 HOUR AS window_end, origin,
  COUNT(*) FILTER (WHERE NOT cancelled) AS departures,
  COUNT(*) FILTER (WHERE cancelled) AS cancelled,
  -- To one digit, ties away from zero as Flink's ROUND does; DuckDB's own rounds some to even.
  sign(SUM(dep_delay)) * ((20 * abs(SUM(dep_delay)) + COUNT(dep_delay)) // (2 * COUNT(dep_delay))) / 10 AS avg_delay,
  MAX(dep_delay) AS max_delay
FROM judged
WHERE watermark IS NULL OR w + INTERVAL 1 HOUR - INTERVAL 1 MILLISECOND > watermark
GROUP BY w, origin
ORDER BY w, origin
