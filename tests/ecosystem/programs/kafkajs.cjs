// kafkajs: producers, a group that is rebalanced, transactions, and every method for administrators.
//   node kafkajs.cjs FOLDER_WITH_NODE_MODULES HOST:PORT NAME
const { createRequire } = require('node:module')
const [folder, address, name] = process.argv.slice(2)
const kafkajs = createRequire(`${folder}/`)('kafkajs')
const login = require('./login.cjs').kafkajs
const { step, tell, until } = require('./steps.cjs')

const kafka = new kafkajs.Kafka({
  clientId: name,
  brokers: [address],
  logLevel: kafkajs.logLevel.NOTHING,
  requestTimeout: 60000,
  ...login
})
const topic = `${name}-in`
const out = `${name}-out`
const group = `${name}-group`
const admin = kafka.admin()
const sum = (partitions, field) => partitions.reduce((total, each) => total + Number(each[field]), 0)

async function topics () {
  const compact = [{ name: 'cleanup.policy', value: 'compact' }]
  const created = [{ topic, numPartitions: 3, configEntries: compact }, { topic: out, numPartitions: 1 }]
  const resource = { type: kafkajs.ConfigResourceTypes.TOPIC, name: topic }
  await step('createTopics', () => admin.createTopics({ topics: created, waitForLeaders: true }), made => made)
  await step('createTopics, again', () => admin.createTopics({ topics: [{ topic }] }), made => !made)
  await step('createPartitions', () => admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] }))
  await step('listTopics', () => admin.listTopics(), said => said.includes(topic))
  await step('fetchTopicMetadata', () => admin.fetchTopicMetadata({ topics: [topic] }),
    said => said.topics[0].partitions.length === 4)
  await step('describeCluster', () => admin.describeCluster(), said => said.brokers.length === 1)
  await step('describeConfigs', () => admin.describeConfigs({ includeSynonyms: true, resources: [{ ...resource, configNames: ['cleanup.policy'] }] }),
    said => said.resources[0].configEntries[0].configValue === 'compact')
  await step('alterConfigs', () => admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'cleanup.policy', value: 'delete' }] }] }))
}

async function records () {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const message = number => ({ key: `k${number}`, value: `v${number}`, headers: { h: 'x' } })
  const send = (first, count) => producer.send({
    topic,
    compression: kafkajs.CompressionTypes.GZIP,
    messages: Array.from({ length: count }, (_, each) => message(first + each))
  })
  await step('send', () => send(0, 1000))
  await step('fetchTopicOffsets', () => admin.fetchTopicOffsets(topic), said => sum(said, 'high') === 1000)
  await step('fetchTopicOffsetsByTimestamp', () => admin.fetchTopicOffsetsByTimestamp(topic, Date.now() - 3600000))
  const read = new Map()
  const member = async () => {
    const consumer = kafka.consumer({ groupId: group })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => { read.set(String(message.key), String(message.value)) } })
    return consumer
  }
  const members = [await member()]
  await step('a group reads', () => until(() => read.size === 1000))
  members.push(await member())
  const described = async () => (await admin.describeGroups([group])).groups[0]
  await step('describeGroups', () => until(async () => {
    const said = await described()
    return said.state === 'Stable' && said.members.length === 2
  }))
  await step('a rebalanced group reads', async () => { await send(1000, 200); await until(() => read.size === 1200) })
  await step('listGroups', () => admin.listGroups(), said => said.groups.some(each => each.groupId === group))
  for (const each of members) await each.disconnect()
  await producer.disconnect()
}

async function offsets () {
  const committed = async options => (await admin.fetchOffsets({ groupId: group, topics: [topic], ...options }))[0].partitions
  const first = partitions => partitions.find(each => each.partition === 0).offset
  await step('fetchOffsets', committed, said => sum(said, 'offset') === 1200)
  await step('resetOffsets', () => admin.resetOffsets({ groupId: group, topic, earliest: true }))
  await step('setOffsets', () => admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '3' }] }))
  await step('fetchOffsets, set', () => committed({ resolveOffsets: true }), said => first(said) === '3')
  await step('transactions', async () => {
    const producer = kafka.producer({ transactionalId: name, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const aborted = await producer.transaction()
    await aborted.send({ topic: out, messages: [{ value: 'aborted' }] })
    await aborted.abort()
    const kept = await producer.transaction()
    await kept.send({ topic: out, messages: [{ value: 'kept' }] })
    await kept.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions: [{ partition: 0, offset: '7' }] }] })
    await kept.commit()
    await until(async () => first(await committed()) === '7')
    await producer.disconnect()
    const read = []
    const consumer = kafka.consumer({ groupId: `${group}-of-out` })
    await consumer.connect()
    await consumer.subscribe({ topics: [out], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => { read.push(String(message.value)) } })
    await until(() => read.length)
    await consumer.disconnect()
    return read.join()
  }, said => said === 'kept')
}

async function rest () {
  await step('deleteTopicRecords', () => admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] }))
  await step('fetchTopicOffsets, deleted', () => admin.fetchTopicOffsets(topic),
    said => said.find(each => each.partition === 0).low === '5')
  await step('deleteGroups', () => admin.deleteGroups([group]))
  await step('alterPartitionReassignments', () => admin.alterPartitionReassignments({ topics: [{ topic: out, partitionAssignment: [{ partition: 0, replicas: [1] }] }] }))
  await step('listPartitionReassignments', () => admin.listPartitionReassignments({ topics: [{ topic: out, partitions: [0] }] }))
  const { AclResourceTypes, AclOperationTypes, AclPermissionTypes, ResourcePatternTypes } = kafkajs
  const acl = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: topic,
    resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: 'User:a',
    host: '*',
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.ALLOW
  }
  await step('createAcls', () => admin.createAcls({ acl: [acl] }))
  await step('describeAcls', () => admin.describeAcls(acl))
  await step('deleteAcls', () => admin.deleteAcls({ filters: [acl] }))
  await step('deleteTopics', () => admin.deleteTopics({ topics: [topic, out] }))
}

(async () => {
  await admin.connect()
  for (const part of [topics, records, offsets, rest]) await part()
  await admin.disconnect()
  tell()
})()
