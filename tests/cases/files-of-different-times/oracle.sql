-- sink: results
SELECT time_bucket(INTERVAL 1 MINUTE, ts) - k * INTERVAL 1 MINUTE AS w_start,
  time_bucket(INTERVAL 1 MINUTE, ts) - k * INTERVAL 1 MINUTE + INTERVAL 2 MINUTE AS w_end, COUNT(*) AS n, SUM(price) AS total
FROM read_json('${in}/*.ndjson', columns = {price: 'DOUBLE', ts: 'TIMESTAMP'}), (VALUES (0), (1)) AS hops (k)
GROUP BY ALL
