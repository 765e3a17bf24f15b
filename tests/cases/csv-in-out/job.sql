CREATE TABLE people (
  id INT,
  name STRING,
  amount DECIMAL(8, 2),
  ok BOOLEAN,
  seen TIMESTAMP(3),
  d DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/people.csv',
  'format' = 'csv'${throttle}
);

CREATE TABLE results (
  name STRING,
  id INT,
  doubled DECIMAL(9, 2),
  ok BOOLEAN,
  seen TIMESTAMP(3),
  d DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'csv'
);

INSERT INTO results SELECT name, id, amount * 2, ok, seen, d FROM people WHERE id <> 3;
