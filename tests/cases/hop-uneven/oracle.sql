-- sink: results
SELECT w AS w_start, w + INTERVAL 50 SECOND AS w_end, COUNT(*) AS n, SUM(price) AS total
FROM (
  SELECT time_bucket(INTERVAL 20 SECOND, ts) - k * INTERVAL 20 SECOND AS w, ts, price
  FROM read_json('${in}/orders.ndjson', columns = {price: 'DOUBLE', ts: 'TIMESTAMP'}), (VALUES (0), (1), (2)) AS hops (k)
)
WHERE ts < w + INTERVAL 50 SECOND
GROUP BY w
