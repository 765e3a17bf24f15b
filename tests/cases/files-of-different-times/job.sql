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
  'path' = '${in}',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT,
  total DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

-- The files cover different hours, the earliest is listed last: still no row is late.
INSERT INTO results
SELECT window_start, window_end, COUNT(*), SUM(price)
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))
GROUP BY window_start, window_end;
