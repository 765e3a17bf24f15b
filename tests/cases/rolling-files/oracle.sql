-- sink: results
SELECT id, customer, region FROM read_json('${in}/orders.ndjson', columns = {id: 'INT', customer: 'VARCHAR', region: 'VARCHAR'})
