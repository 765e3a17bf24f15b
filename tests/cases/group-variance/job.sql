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
  region STRING,
  sp DOUBLE,
  ss DOUBLE,
  vp DOUBLE,
  vs DOUBLE,
  v DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT region, STDDEV_POP(price), STDDEV_SAMP(price), VAR_POP(price), VAR_SAMP(price), VARIANCE(price)
FROM orders GROUP BY region;
