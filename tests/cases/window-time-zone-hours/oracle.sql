-- sink: results
-- Kolkata is always 5:30 h ahead. (Flink takes most of these rows for late.)
SELECT time_bucket(INTERVAL 1 HOUR, kolkata) AS w_start, time_bucket(INTERVAL 1 HOUR, kolkata) + INTERVAL 1 HOUR AS w_end,
  strftime(time_bucket(INTERVAL 1 HOUR, kolkata) + INTERVAL 60 MINUTE - INTERVAL 330 MINUTE - INTERVAL 1 SECOND, '%Y-%m-%d %H:%M:%S') || '.999Z' AS w_time,
  COUNT(*) AS n, SUM(v)::INT AS v
FROM (SELECT ts + INTERVAL 330 MINUTE AS kolkata, v FROM read_json('${in}/clicks.ndjson', columns = {ts: 'TIMESTAMP', v: 'INT'}))
GROUP BY ALL
