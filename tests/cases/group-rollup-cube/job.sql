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

CREATE TABLE rolled (
  region STRING,
  customer STRING,
  total DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/rolled',
  'format' = 'debezium-json'
);

CREATE TABLE cubed (
  region STRING,
  qty INT,
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/cubed',
  'format' = 'debezium-json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO rolled SELECT region, customer, SUM(price) FROM orders GROUP BY ROLLUP (region, customer);
INSERT INTO cubed SELECT region, qty, COUNT(*) FROM orders GROUP BY CUBE (region, qty);
END;
