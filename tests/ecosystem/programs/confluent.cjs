// @confluentinc/kafka-javascript: a producer, groups of both protocols, a transaction, administration.
//   node confluent.cjs FOLDER_WITH_NODE_MODULES HOST:PORT NAME
const { createRequire } = require('node:module')
const [folder, address, name] = process.argv.slice(2)
const { Kafka, logLevel } = createRequire(`${folder}/`)('@confluentinc/kafka-javascript').KafkaJS
const login = require('./login.cjs').librdkafka
const { step, tell, until } = require('./steps.cjs')

const kafka = new Kafka({ 'bootstrap.servers': address, ...login, kafkaJS: { logLevel: logLevel.ERROR } })
const topic = `${name}-topic`
const sum = (partitions, field) => partitions.reduce((total, each) => total + Number(each[field]), 0)
const messages = Array.from({ length: 1000 }, (_, each) => ({ key: `k${each}`, value: `v${each}`, headers: { h: 'x' } }))

async function records () {
  const producer = kafka.producer({ 'enable.idempotence': true, 'compression.codec': 'lz4' })
  await producer.connect()
  await step('send', () => producer.send({ topic, messages }), said => said.length > 0)
  await producer.disconnect()
  for (const protocol of ['classic', 'consumer']) {
    await step(`a group reads, ${protocol}`, async () => {
      const consumer = kafka.consumer({ 'group.id': `${name}-${protocol}`, 'group.protocol': protocol, 'auto.offset.reset': 'earliest' })
      const read = []
      await consumer.connect()
      await consumer.subscribe({ topics: [topic] })
      await consumer.run({ eachMessage: async ({ message }) => { read.push(String(message.value)) } })
      await until(() => read.length >= messages.length)
      await consumer.disconnect()
      return read
    }, read => read.length === messages.length && new Set(read).size === messages.length)
  }
}

async function transactions () {
  const producer = kafka.producer({ 'transactional.id': name })
  await producer.connect()
  const consumer = kafka.consumer({ 'group.id': `${name}-transactional`, 'auto.offset.reset': 'earliest' })
  await consumer.connect()
  await step('a transaction that is aborted', async () => {
    const aborted = await producer.transaction()
    await aborted.send({ topic: `${name}-out`, messages: [{ value: 'aborted' }] })
    await aborted.abort()
  })
  await step('a transaction with offsets', async () => {
    const kept = await producer.transaction()
    await kept.send({ topic: `${name}-out`, messages: [{ value: 'kept' }] })
    await kept.sendOffsets({ consumer, topics: [{ topic, partitions: [{ partition: 0, offset: '7' }] }] })
    await kept.commit()
  })
  await producer.disconnect()
  const read = []
  await consumer.subscribe({ topics: [`${name}-out`] })
  await consumer.run({ eachMessage: async ({ message }) => { read.push(String(message.value)) } })
  await step('what is committed is read', async () => { await until(() => read.length); return read.join() }, said => said === 'kept')
  await consumer.disconnect()
}

async function administration (admin) {
  const groups = ['classic', 'consumer'].map(each => `${name}-${each}`)
  await step('listTopics', () => admin.listTopics(), said => said.includes(topic))
  await step('fetchTopicMetadata', () => admin.fetchTopicMetadata({ topics: [topic] }), said => said[0].partitions.length === 3)
  await step('fetchTopicOffsets', () => admin.fetchTopicOffsets(topic), said => sum(said, 'high') === messages.length)
  await step('listGroups', () => admin.listGroups(), said => groups.every(group => said.groups.some(each => each.groupId === group)))
  await step('describeGroups', () => admin.describeGroups(groups), said => said.groups.length === 2)
  for (const groupId of groups) {
    await step(`fetchOffsets, ${groupId}`, () => admin.fetchOffsets({ groupId, topics: [topic] }), said => sum(said[0].partitions, 'offset') === messages.length)
  }
  await step('fetchOffsets, of the transaction', () => admin.fetchOffsets({ groupId: `${name}-transactional`, topics: [topic] }), said => said[0].partitions.some(each => String(each.offset) === '7'))
  await step('deleteTopicRecords', () => admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] }))
  await step('deleteGroups', () => admin.deleteGroups(groups))
  await step('deleteTopics', () => admin.deleteTopics({ topics: [topic, `${name}-out`] }))
}

(async () => {
  const admin = kafka.admin()
  await admin.connect()
  const created = [{ topic, numPartitions: 3 }, { topic: `${name}-out`, numPartitions: 1 }]
  await step('createTopics', () => admin.createTopics({ topics: created }), made => made)
  await records()
  await transactions()
  await administration(admin)
  await admin.disconnect()
  tell()
})()
