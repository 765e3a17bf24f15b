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

CREATE TABLE dear (
  id INT,
  customer STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/dear',
  'format' = 'json'
);

CREATE TABLE per_customer (
  customer STRING,
  orders BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/per_customer',
  'format' = 'debezium-json'
);

CREATE TABLE per_minute (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  orders BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/per_minute',
  'format' = 'json'
);

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO dear SELECT id, customer FROM orders WHERE price > 75;
  INSERT INTO per_customer SELECT customer, COUNT(*) FROM orders GROUP BY customer;
  INSERT INTO per_minute
    SELECT window_start, window_end, COUNT(*)
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end;
END;
