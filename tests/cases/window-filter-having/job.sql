CREATE TABLE orders (
  id INT,
  customer STRING,
  region STRING,
  amount DECIMAL(10, 2),
  qty INT,
  price DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/orders.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  region STRING,
  n BIGINT,
  dear BIGINT,
  dear_sum DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT window_start, window_end, region, COUNT(*), COUNT(*) FILTER (WHERE price > 50), SUM(price) FILTER (WHERE price > 50)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, region
HAVING COUNT(*) > 4 AND MAX(price) < 99;
