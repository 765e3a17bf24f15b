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
  most BIGINT,
  least BIGINT,
  regions BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT window_start, window_end, MAX(n), MIN(n), COUNT(*)
FROM (
  SELECT window_start, window_end, region, COUNT(*) AS n
  FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '15' SECOND, INTERVAL '30' SECOND))
  GROUP BY window_start, window_end, region
) AS counted
GROUP BY window_start, window_end;
