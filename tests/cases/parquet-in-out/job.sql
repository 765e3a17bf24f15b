CREATE TABLE orders (
  day DATE,
  id INT,
  customer STRING,
  amount DECIMAL(10, 2),
  price DOUBLE,
  ts TIMESTAMP(6),
  third BOOLEAN,
  pair ARRAY<INT>,
  rec ROW<a INT, b STRING>
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/orders.parquet',
  'format' = 'parquet'${throttle}
);

CREATE TABLE results (
  id INT,
  customer STRING,
  amount DECIMAL(10, 2),
  price DOUBLE,
  ts TIMESTAMP(3),
  third BOOLEAN,
  day DATE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'parquet'
);

CREATE TABLE nested (
  id INT,
  second INT,
  b STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/nested',
  'format' = 'json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO results SELECT id, customer, amount, price, CAST(ts AS TIMESTAMP(3)), third, day FROM orders WHERE price > 10;
INSERT INTO nested SELECT id, pair[1], rec.b FROM orders WHERE id <= 20;
END;
