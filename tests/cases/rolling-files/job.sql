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
  'format' = 'json',
  'source.rows-per-second' = '100'
);

CREATE TABLE results (
  id INT,
  customer STRING,
  region STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json',
  'sink.rolling-policy.file-size' = '1KB'
);

INSERT INTO results SELECT id, customer, region FROM orders;
