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
  n BIGINT,
  n_amount BIGINT,
  amount DECIMAL(38, 2),
  qty INT,
  avg_price DOUBLE,
  min_price DOUBLE,
  max_price DOUBLE,
  first_customer STRING,
  latest TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT window_start, window_end, COUNT(*) , COUNT(amount), SUM(amount), SUM(qty), AVG(price), MIN(price), MAX(price), MIN(customer), MAX(ts)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '-25' SECOND))
GROUP BY window_start, window_end;
